package node

// The address on the bus of a module's phase, in each module.
const (
	PhaseObject  = "phase"
	PhaseVersion = "0.1.0"
)

// ModulePhase is where a module is in its life.
type ModulePhase struct {
	// Phase is Disabled, Pending, Loading, Running or Failed; Reason says in one word why it doesn't run, such as
	// "LoadFailed".
	Phase, Reason string
	// Message is for people, at most 1 KiB.
	Message string
}

// Phase tells a module's phase, also while it doesn't run: it is served by the process that runs the module, or will.
// Bus: phase@0.1.0 of the module.
type Phase interface {
	// Phase is the module's present one.
	Phase() (ModulePhase, error)
}
