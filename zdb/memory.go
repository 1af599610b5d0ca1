package zdb

import "github.com/croft-edge/croft/pkg/limit"

// KeyMemory is the limit of the memory for keys of mode user. The figures are those of a
// node with its default settings: with another Config.Memory a namespace has an
// eighth for sure, and a quarter of all is kept for those that have less.
var KeyMemory = limit.Limit{Name: "zdb-key-memory", Per: "namespace", Each: 64 << 20, Total: 512 << 20, Kept: 128 << 20, Unit: limit.Bytes}

// keyMemory counts the memory of all namespaces' keys.
type keyMemory struct {
	most uint64 // Config.Memory; 0 for no limit
	used uint64
	// loading is true while the server starts: present keys aren't refused.
	loading bool
}

// take counts more bytes of a namespace's keys, or fewer. It refuses more than the
// limit.
func (m *keyMemory) take(ns *namespace, more int) bool {
	if more > 0 && !m.loading && !m.fits(int64(ns.memory)+int64(more), int64(m.used)+int64(more)) {
		KeyMemory.Reached()
		return false
	}
	m.used = uint64(max(int64(m.used)+int64(more), 0))
	ns.memory = uint64(max(int64(ns.memory)+int64(more), 0))
	return true
}

// fits reports whether a namespace may have own bytes of the then total.
func (m *keyMemory) fits(own, total int64) bool {
	most := int64(m.most)
	each, kept := most/(KeyMemory.Total/KeyMemory.Each), most/(KeyMemory.Total/KeyMemory.Kept)
	return most == 0 || total <= most && (own <= each || total <= most-kept)
}
