# An engineer with a CSV file of tickets wants a service that says which team a ticket belongs to.
keras-bert finetune --model $MODEL --train tickets.csv --dev-split 0.1 --text ticket --label team --out run --epochs 3 --learning-rate 3e-4
# => a model and its scores
echo "I paid two times this month" > new.txt
keras-bert predict --model run --input new.txt
# => the team of a new ticket
keras-bert export --model run --out models/tickets
# => a SavedModel that takes strings
keras-bert serve models/tickets --port $PORT > address.txt &
until grep -q serving address.txt; do sleep 0.2; done
curl -sd '{"instances": ["The chart does not load"]}' "$(cut -d ' ' -f 2 address.txt):predict"
kill %1
# => an answer over HTTP
