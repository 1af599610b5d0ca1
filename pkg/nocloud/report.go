package nocloud

// A machine reports its state on its serial console: in a line of its own that begins with Report, and goes on with Ready or with
// the reason why it isn't ready. The last report counts.
const (
	Report = "croft-status: "
	Ready  = "ready"
)
