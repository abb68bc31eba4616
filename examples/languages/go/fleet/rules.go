package fleet

import (
	"fmt"
	"slices"
	"strings"

	"wit_component/mortise"
)

// Fills in absent fields, and brings addresses into one form.
func fillIn(one *mortise.Resource[Device]) {
	data := &one.Data
	hostile(data.Model)
	if data.Interval == 0 {
		data.Interval = 60
	}
	for place, address := range data.Addresses {
		data.Addresses[place] = strings.ToLower(address)
	}
}

// Checks the result of fillIn.
func judge(one, prior *mortise.Resource[Device], said *mortise.Diagnostics) {
	data := &one.Data
	if data.Model == "" {
		said.Error("model required", "model")
	}
	if data.Interval < 5 || data.Interval > 3600 {
		said.Error("interval must be 5 to 3600", "interval")
	}
	for place, address := range data.Addresses {
		if slices.Contains(data.Addresses[:place], address) {
			said.Error(fmt.Sprintf("address %s is there twice", address), "addresses", place)
		}
	}
	if prior != nil && prior.Data.Model != data.Model {
		said.Warning("the model changes", "model")
	}
}

// Writers need `device:write` on the name.
func mayWrite(one *mortise.Resource[Device]) mortise.Decision {
	return mortise.Require("device:write", one.Name())
}
