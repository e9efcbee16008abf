"""Protocol buffers as bytes: their fields by number, without a description of the message."""


def read_fields(message):
    """dict of the numbers of fields to lists of their values, of the bytes of a protocol buffer."""
    fields, place = {}, 0
    while place < len(message):
        key, place = _number(message, place)
        if key & 7 == 0:
            value, place = _number(message, place)
        else:
            size = {1: 8, 5: 4}.get(key & 7)
            if size is None:
                size, place = _number(message, place)
            value, place = message[place : place + size], place + size
        fields.setdefault(key >> 3, []).append(value)
    return fields


def read_numbers(message):
    """list of the numbers in the bytes of a packed field."""
    numbers, place = [], 0
    while place < len(message):
        number, place = _number(message, place)
        numbers.append(number)
    return numbers


def _number(message, place):
    """(a number of variable length, the place behind it)."""
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place


def read_records(path):
    """Iterates over the records of a TFRecord file, bytes; without one there is none."""
    data, place = path.read_bytes() if path.is_file() else b"", 0
    while place < len(data):
        size = int.from_bytes(data[place : place + 8], "little")
        place += 12  # behind the length and its check sum
        yield data[place : place + size]
        place += size + 4


def write_field(number, content):
    """bytes of a field whose content, bytes, has a length."""
    return write_number(number << 3 | 2) + write_number(len(content)) + content


def write_number(number):
    """bytes of a number of variable length, 0 or more."""
    more = b""
    while number > 127:
        more += bytes([number & 127 | 128])
        number >>= 7
    return more + bytes([number])
