def cause(record, kernel, operator):
    if record.get("equivalent"):
        return "equivalent"
    if not operator.rules:
        return "no rule yet"
    if record["verdict"] in ("low", "note"):
        return record["verdict"]
    if record.get("code") == "same":
        return "same machine code"
    if record.get("code") == "refused":
        return "ptxas refuses it"
    if record["verdict"] == "other":
        return "another rule"
    return "unexplained"
