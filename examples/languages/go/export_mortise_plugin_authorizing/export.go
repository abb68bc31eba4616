// Package export_mortise_plugin_authorizing hands over a call of the host.
package export_mortise_plugin_authorizing

import (
	wit "go.bytecodealliance.org/pkg/wit/types"

	"wit_component/mortise"
	authorizing "wit_component/mortise_plugin_authorizing"
	types "wit_component/mortise_plugin_types"
)

func decision(of mortise.Decision) authorizing.Decision {
	if of.Allow {
		return authorizing.MakeDecisionAllow()
	}
	return authorizing.MakeDecisionDeny(of.Reason)
}

func Write(input []uint8) authorizing.Decision { return decision(mortise.AuthorizeWrite(input)) }

// Reading and listing have no hooks here: the manifest does not name them, so the host does not ask.

func Read([]uint8, wit.Option[[]uint8]) authorizing.Decision {
	return decision(mortise.Require("operator:read", ""))
}

func List(types.TypeName, types.Tenancy) authorizing.Decision {
	return decision(mortise.Require("operator:read", ""))
}
