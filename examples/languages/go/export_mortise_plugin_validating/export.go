// Package export_mortise_plugin_validating hands over a call of the host.
package export_mortise_plugin_validating

import (
	wit "go.bytecodealliance.org/pkg/wit/types"

	"wit_component/mortise"
	types "wit_component/mortise_plugin_types"
)

func Validate(input []uint8, prior wit.Option[[]uint8]) []types.Diagnostic {
	return mortise.Validate(input, prior.SomeOr(nil))
}
