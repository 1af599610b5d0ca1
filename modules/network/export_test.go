package network

// LookUp looks names up again, as the module does once a minute, and waits for them.
func (m *Module) LookUp() {
	m.lookUp()
	m.lookups.wait()
}

// LookedUp waits for the names that are being looked up.
func (m *Module) LookedUp() { m.lookups.wait() }

// EndpointLookups is how many names are looked up at a time.
var EndpointLookups = endpointLookups

// CannotHold is what is said of a rate that the kernel doesn't hold.
var CannotHold = cannotHold

// IsNoLink reports whether an error says that the link isn't there.
var IsNoLink = isNoLink
