package fakenode

import (
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Start starts the zdb of a container on the volume at data, and returns its spec
// for Attach.
func (z *ZDB) Start(container string, mode workload.ZDBMode, data string) node.ZDBServerSpec {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.zdbs[container] = zdb{mode, data}
	if z.data[data] == nil {
		z.data[data] = map[string]*namespace{}
	}
	z.started.Broadcast()
	return node.ZDBServerSpec{Container: container, Mode: mode, Data: data}
}

// Kill ends the zdb of a container; its data stays.
func (z *ZDB) Kill(container string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.zdbs, container)
}

// erase removes the data on a volume that is gone.
func (z *ZDB) erase(data string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.data, data)
}

// Silence makes the next calls of Attach find a zdb that doesn't answer yet.
func (z *ZDB) Silence(calls int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.silent = calls
}

// Silent is how many of the calls of Silence are left.
func (z *ZDB) Silent() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.silent
}

// SetAddresses sets the node's own addresses, empty for none.
func (z *ZDB) SetAddresses(ipv4, ipv6 string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.ipv4, z.ipv6 = ipv4, ipv6
}

// Ports are the ports of the attached containers.
func (z *ZDB) Ports() map[string]uint16 {
	z.mu.Lock()
	defer z.mu.Unlock()
	out := map[string]uint16{}
	for id, s := range z.servers {
		out[id] = s.Port
	}
	return out
}

// Namespaces are the specs of the namespaces on the volume at data, also while no
// zdb has it open.
func (z *ZDB) Namespaces(data string) map[string]node.ZDBNamespaceSpec {
	z.mu.Lock()
	defer z.mu.Unlock()
	out := map[string]node.ZDBNamespaceSpec{}
	for name, n := range z.data[data] {
		out[name] = n.spec
	}
	return out
}

// Data are the paths of all volumes with namespaces, and the number of these.
func (z *ZDB) Data() map[string]int {
	z.mu.Lock()
	defer z.mu.Unlock()
	out := map[string]int{}
	for data, all := range z.data {
		out[data] = len(all)
	}
	return out
}

// PutNamespace adds a namespace to the volume at data, or replaces the one of its
// name, without any check; its values stay.
func (z *ZDB) PutNamespace(data string, spec node.ZDBNamespaceSpec) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.data[data] == nil {
		z.data[data] = map[string]*namespace{}
	}
	n := z.data[data][spec.Name]
	if n == nil {
		n = &namespace{values: map[string]string{}}
		z.data[data][spec.Name] = n
	}
	n.spec = spec
}

// RemoveNamespace removes a namespace from the volume at data.
func (z *ZDB) RemoveNamespace(data, name string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.data[data], name)
}

// Release detaches a container behind the module's back.
func (z *ZDB) Release(container string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.servers, container)
}
