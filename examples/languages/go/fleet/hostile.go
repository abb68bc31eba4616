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
			taken = append(taken, make([]byte, 1<<23))
		}
	case "hostile-trap":
		panic("on purpose")
	}
}
