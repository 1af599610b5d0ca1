package network

// LookUp looks names up again, as the module does once a minute.
func (m *Module) LookUp() { m.lookUp() }
