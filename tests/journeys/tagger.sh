# A workshop tags parts and faults in its notes, and wants to know when the notes change.
keras-bert check notes.conll --task tagging --model $MODEL --max-length 32
# => what is in the file
keras-bert finetune --task tagging --model $MODEL --train notes.conll --dev-split 0.2 --out run --epochs 10 --batch-size 8 --learning-rate 5e-4 --max-length 32 --json
# => a tagger and its scores
head -3 run/predictions.tsv
# => each word with its true label, line and probability
keras-bert drift --model run --served notes.conll --check --json
# => no shift from its training data
tail -n +2 tickets.csv | cut -d, -f1 > tickets.txt
keras-bert drift --model run --served tickets.txt --check --json || echo "exit status $?"
# => a shift in texts of another domain
keras-bert finetune --task tagging --model run --train notes.conll --dev run --out later --epochs 1 --batch-size 8 --max-length 32 --json
# => a later run, scored on the same sentences
