#!/usr/bin/env bash
# Writes the tables of docs/measurements, measured on this machine, each to OUT/NAME.md, and
# OUT/machine.md with the processor and the versions. Keep the machine otherwise idle: running
# everything takes hours, most of them for finetuning.
#
#     bash tools/bench/run.sh MINILM DATA OUT [NAME...]
#
# MINILM is the model directory of all-MiniLM-L6-v2, DATA the folder with text/ and glue/. Without a
# NAME, all benchmarks run. PEER_PYTHON is a Python with sentence-transformers[onnx,openvino] and
# ctranslate2, which conflict with the packages here; without it, their measurements are left out.
# With DRY_RUN=1, the commands are only printed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ $# -ge 3 ]] || { sed -n 's/^# \{0,1\}//; 2,11p' "${BASH_SOURCE[0]}" >&2; exit 2; }
model=$(realpath "$1") data=$(realpath "$2") out=$(realpath -m "$3")
shift 3
export PYTHONPATH=$PWD
text=$data/text/enwiki-10m-words.txt
rounds="--rounds 7"
corpus="--text $text --tokenizer $model $rounds"
embedders="embed embed-python"
classifiers="ours ours-bf16 ours-xla ours-onnx ours-onnx-int8 ours-litert ours-litert-int8 ours-openvino ours-openvino-bf16"
classifiers+=" ours-openvino-int8 ours-openvino-calibrated nncf-int8 fused-onnx pytorch pytorch-compiled pytorch-bf16 keras-hub-exported"
if [[ ${PEER_PYTHON:-} ]]; then
    embedders+=" embed-sentence-transformers embed-sentence-transformers-onnx embed-sentence-transformers-openvino --peer-python $PEER_PYTHON"
    classifiers+=" ctranslate2-int8 --peer-python $PEER_PYTHON"
fi
shapes="1x32 1x128 1x384 8x32 8x128 8x384 32x32 32x128 32x384 32xmixed"
peers="--systems ours keras-hub keras-hub-xla transformers transformers-compiled"

declare -A benches=(
    [pretraining-128]="pretraining.py $corpus --batch-size 8 --length 128 --precision bfloat16 $peers"
    [pretraining-512]="pretraining.py $corpus --batch-size 2 --length 512 --precision bfloat16 $peers"
    [replicas]="pretraining.py $corpus --batch-size 16 --length 128 --precision bfloat16 --systems ours ours-2-replicas ours-4-replicas"
    [input]="input_pipeline.py $corpus"
    [loading]="loading.py $rounds"
    [serving]="serving.py --model $model --text $text $rounds --seconds 0.5 --shapes $shapes --systems $classifiers"
    [embedding]="serving.py --model $model --text $text $rounds --shapes 1x32 32x128 32xmixed --systems $embedders"
    [onnx]="onnx_latency.py --model $model $rounds --shapes 1x32 1x128 1x384 32x32"
    [backends]="backends.py"
    [finetuning]="finetuning.py --model $model --data $data --results $out/finetuning.jsonl"
)
names=("$@")
[[ $# -gt 0 ]] || names=(loading input pretraining-128 pretraining-512 replicas serving embedding onnx backends finetuning)
for name in "${names[@]}"; do
    [[ -n ${benches[$name]:-} ]] || { echo "no benchmark $name; there is: ${!benches[*]}" >&2; exit 2; }
done

if [[ ${DRY_RUN:-} ]]; then
    for name in "${names[@]}"; do echo "python tools/bench/${benches[$name]}"; done
    exit
fi
mkdir -p "$out"
{
    date -u +%F
    lscpu | grep -E '^(Model name|CPU\(s\)|Flags)' | grep -oE '^(Model name|CPU\(s\)).*|avx[0-9a-z_]*|amx[0-9a-z_]*'
    python -m pip freeze | grep -iE '^(tensorflow|tensorflow-text|keras|keras-hub|jax|torch|transformers|tokenizers|onnxruntime|openvino|ai-edge-litert)=='
} > "$out/machine.md"
for name in "${names[@]}"; do
    echo "== $name"
    # shellcheck disable=SC2086  # a command line of words without spaces
    python tools/bench/${benches[$name]} | tee "$out/$name.md"
done
