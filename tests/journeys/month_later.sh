# Last month, an engineer trained a model on October's tickets.
awk 'NR == 1 || NR % 2' tickets.csv > october.csv
keras-bert finetune --model $MODEL --train october.csv --dev-split 0.25 --text ticket --label team --out run --epochs 2 --learning-rate 1e-4
keras-bert export --model run --out models/tickets
# => a model of October
keras-bert serve models/tickets --port $PORT --feedback feedback.jsonl > address.txt &
until grep -q serving address.txt; do sleep 0.2; done
cat > november.py <<'END'
import csv, json, sys, urllib.request

def send(method, request):
    body = json.dumps(request).encode()
    with urllib.request.urlopen(f"{sys.argv[1]}:{method}", body) as response:
        return json.load(response)

for row in list(csv.DictReader(open("tickets.csv")))[::2]:
    answer = send("predict", {"instances": [row["ticket"]]})
    send("feedback", {"request_id": answer["request_id"], "label": row["team"]})
END
URL=$(cut -d ' ' -f 2 address.txt)
python november.py $URL
curl -s "${URL%/v1/*}/metrics" | grep '^keras_bert_feedback'
kill %1
# => labels of November's tickets, and how often the model was right
keras-bert check october.csv feedback.jsonl --text ticket --label team
keras-bert drift --model run --served feedback.jsonl --json
# => drift, and the accuracy by week
keras-bert finetune --model run --train october.csv feedback.jsonl --dev run --out run-2 --epochs 2 --learning-rate 1e-4
# => a model of both months, scored on the validation rows of October
keras-bert evaluate --model run-2 --dev run --against run --max-drop 0.01 --json
# => a comparison that the new model passes
sed 's/,billing/,bug/; t; s/,bug/,billing/' october.csv > swapped.csv
keras-bert finetune --model $MODEL --train swapped.csv --dev run --text ticket --label team --out worse --epochs 2 --learning-rate 1e-4
keras-bert evaluate --model worse --dev run --against run --max-drop 0.01 || echo "exit status $?"
# => a comparison that a worse model fails
