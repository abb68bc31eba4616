//go:build hostile

package fleet

// Faults on purpose, for .ci/languages: the model of a device chooses one.

const version = "0.2.0"

// Loops, takes memory, or traps.
func hostile(model string) {
	switch model {
	case "hostile-loop":
		for {
		}
	case "hostile-memory":
		var taken [][]byte
		for {
			one := make([]byte, 1<<20)
			for at := range one {
				one[at] = 1
			}
			taken = append(taken, one)
		}
	case "hostile-trap":
		panic("on purpose")
	}
}
