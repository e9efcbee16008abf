import numpy as np
import pytest

from keras_bert_impl.layers import SegmentMask
from tests.helpers import to_numpy

SEP, PAD = 2, 1
#         <s>  question  </s> </s>  text     </s>  padding
IDS = np.array([[0, 7, 8, SEP, SEP, 9, 10, 11, SEP, PAD], [0, 7, SEP] + [PAD] * 7], "int32")
MASK = (IDS != PAD).astype("int32")


@pytest.mark.parametrize(
    ("segment", "limit", "expected"),
    [
        ("first", 9, [[0, 1, 2], [0, 1]]),
        ("first", 2, [[0, 1], [0, 1]]),
        ("second", 9, [[5, 6, 7, 8], []]),
        ("second", 3, [[5, 6, 7], []]),
    ],
    ids=str,
)
def test_marks_a_segment(segment, limit, expected):
    mask = to_numpy(SegmentMask(segment, SEP, 2, limit)(IDS, MASK))
    assert [np.flatnonzero(row).tolist() for row in mask] == expected
    assert mask.dtype == "int32"
