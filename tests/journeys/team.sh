# A team with a corpus wants an encoder of its own, and to know what it learned.
keras-bert vocab corpus --out tokenizer --size 2000
# => a vocabulary
keras-bert prepare corpus --tokenizer tokenizer --out records --length 64 --objective mlm --held-out 0.1
# => records
keras-bert pretrain records --out trial --model bert_uncased_L-2_H-128_A-2 --total-steps 60 --report-every 20 --batch-size 16 --learning-rate 1e-3
cat trial/scores.json
# => a pre-trained model and its scores on held-out documents
keras-bert fill-mask trial/model "the [MASK] of the model" --top 3
# => words that it predicts
keras-bert finetune --model trial/model --train tickets.csv --dev-split 0.1 --text ticket --label team --out ours --epochs 3 --learning-rate 1e-3
# => the same model, fine-tuned
