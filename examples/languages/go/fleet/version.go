//go:build !hostile

package fleet

const version = "0.1.0"

// Does nothing. A plugin of your own has no such function.
func hostile(string) {}
