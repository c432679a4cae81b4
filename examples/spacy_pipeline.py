"""treefine in a spaCy pipeline: sentences, trees, and the word that it is least sure of."""

import spacy

nlp = spacy.blank("en")
nlp.add_pipe("treefine", config={"model": "en"})
texts = ["Nobody knew why. The dog barked at the old man with the hat.", "She left."]

for doc in nlp.pipe(texts):
    for sentence in doc.sents:
        weakest = min(sentence, key=lambda token: token._.confidence)
        print(sentence.text)
        print(" ".join(f"{token.text}<-{token.dep_}-{token.head.text}" for token in sentence))
        print(f"least sure: {weakest.text} <- {weakest.head.text} ({weakest._.confidence:.2f})")
