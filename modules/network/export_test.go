package network

import "github.com/croft-edge/croft/modules/network/endpoints"

// LookUp looks names up again, as the module does once a minute, and waits for them.
func (m *Module) LookUp() {
	m.lookUpSilent()
	m.lookups.Wait()
}

// LookedUp waits for the names that are being looked up.
func (m *Module) LookedUp() { m.lookups.Wait() }

// EndpointLookups bounds the names that are looked up at a time.
var EndpointLookups = endpoints.Limit
