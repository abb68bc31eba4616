// The generator of the bindings gives the module its name.
module wit_component

go 1.25

require go.bytecodealliance.org/pkg v0.4.0

replace go.bytecodealliance.org/pkg => ./go-pkg
