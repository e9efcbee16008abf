# An engineer with a file of reviews from Excel wants a service that finds the one in twenty that is negative.
keras-bert check reviews.csv --text review --label verdict --json
# => what is wrong with the file
keras-bert finetune --model $MODEL --train reviews.csv --encoding cp1252 --skip-bad-rows --text review --label verdict --dev-split 0.3 --max-length 48 --out plain
# => a model that never predicts the rare class, which the verdict says
keras-bert finetune --model $MODEL --train reviews.csv --encoding cp1252 --skip-bad-rows --text review --label verdict --dev-split 0.3 --max-length 48 --class-weight balanced --metric f1/negative --keep-best --learning-rate 1e-4 --epochs 4 --out run --json
# => a model that finds negative reviews
keras-bert calibrate --model run --threshold f2 --class negative --json
# => calibrated probabilities and a threshold
keras-bert report run
# => a page that shows both
keras-bert evaluate --model run --against plain --dev test.csv --max-drop 0.01 --out scored --json
# => scores on other reviews, and that the plain model is not better
keras-bert export --model run --out models/reviews
keras-bert serve models/reviews --port $PORT > address.txt &
until grep -q serving address.txt; do sleep 0.2; done
curl -sd @instances.json "$(cut -d ' ' -f 2 address.txt):predict"
kill %1
# => decisions over HTTP
