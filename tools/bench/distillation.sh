#!/usr/bin/env bash
# Measures distillation into a student with half of the teacher's layers, on 10,000 texts of SST-2.
#
#   bash tools/bench/distillation.sh MODEL SST2 WORDS OUT SEED
#
# MODEL is the pre-trained model for the teacher, SST2 the folder of train.tsv and dev.tsv, WORDS a
# masked language model that augments the texts. Each run is a folder in OUT with a scores.json. The
# last two runs have almost the same number of steps: 13 epochs, and 3 epochs over five times as
# many texts.
set -euo pipefail
model=$1 sst2=$2 words=$3 out=$4 seed=$5
mkdir -p "$out"

python - "$sst2/train.tsv" "$out/train.tsv" <<'PYTHON'
import random
import sys

header, *rows = open(sys.argv[1], encoding="utf-8").read().splitlines()
open(sys.argv[2], "w").write("\n".join([header, *random.Random(1234).sample(rows, 10_000)]) + "\n")
PYTHON

tune() {  # NAME MODEL TRAIN SETTING...
  keras-bert finetune --model "$2" --train "$3" --dev "$sst2/dev.tsv" --text sentence --label label \
    --out "$out/$1" "${@:4}" --max-length 64 --dtype mixed_bfloat16 --seed "$seed"
}

tune teacher "$model" "$out/train.tsv" --epochs 2
[ -d "$out/student" ] || keras-bert student --teacher "$out/teacher/model" --layers 3 --out "$out/student"
[ -f "$out/more.jsonl" ] || keras-bert augment --model "$words" --train "$out/train.tsv" \
  --text sentence --label label --copies 4 --seed "$seed" --out "$out/more.jsonl"
of_teacher=(--teacher "$out/teacher" --learning-rate 5e-5)
tune alone "$out/student" "$out/train.tsv" --epochs 3 --learning-rate 5e-5
tune soft "$out/student" "$out/train.tsv" --epochs 3 "${of_teacher[@]}"
tune tinybert "$out/student" "$out/train.tsv" --epochs 3 --intermediate-epochs 10 --distillation tinybert "${of_teacher[@]}"
tune copies "$out/student" "$out/more.jsonl" --epochs 1 --intermediate-epochs 2 --distillation tinybert "${of_teacher[@]}"
for run in teacher alone soft tinybert copies; do echo "$run $(tr -d "\n" < "$out/$run/scores.json")"; done
