// Package export_mortise_plugin_mutating hands over a call of the host.
package export_mortise_plugin_mutating

import (
	wit "go.bytecodealliance.org/pkg/wit/types"

	"wit_component/mortise"
	types "wit_component/mortise_plugin_types"
)

func Mutate(input []uint8) wit.Result[wit.Option[[]uint8], []types.Diagnostic] {
	changed, refusal := mortise.Mutate(input)
	switch {
	case refusal != nil:
		return wit.Err[wit.Option[[]uint8]](refusal)
	case changed == nil:
		return wit.Ok[wit.Option[[]uint8], []types.Diagnostic](wit.None[[]uint8]())
	}
	return wit.Ok[wit.Option[[]uint8], []types.Diagnostic](wit.Some(changed))
}
