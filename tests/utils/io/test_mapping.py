import numpy as np
import pytest

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.mapping import mapped


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(b"odd" + np.arange(6, dtype="<f4").tobytes())
    return path


def test_an_array_in_a_file_is_read_only(path):
    array = mapped(path, np.dtype("<f4"), (2, 3), 3)
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_scalars_and_empty_arrays(path):
    assert mapped(path, np.dtype("<f4"), (), 7) == 1
    assert mapped(path, np.dtype("<f4"), (0, 3), 3).shape == (0, 3)


def test_a_file_that_is_too_short_or_missing(path):
    with pytest.raises(InputError, match="numbers cannot be read"):
        mapped(path, np.dtype("<f4"), (2, 4), 3)
    path.unlink()
    with pytest.raises(InputError, match="numbers cannot be read.*No such file"):
        mapped(path, np.dtype("<f4"), (2, 3), 3)
