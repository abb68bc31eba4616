module mortise.local/example/generated

go 1.26.0
