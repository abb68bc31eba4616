module fleet

go 1.25
