package zdb

import "github.com/croft-edge/croft/pkg/limit"

// KeyMemory is what the keys of mode user may take. The figures are those of a
// node with its default settings: with another Config.Memory a namespace has an
// eighth for sure, and a quarter of all is kept for those that have less.
var KeyMemory = limit.Limit{Name: "zdb-key-memory", Per: "namespace", Each: 64 << 20, Total: 512 << 20, Kept: 128 << 20, Unit: limit.Bytes}

// remember counts the memory of a namespace's keys, and refuses more than there
// may be. What is there already when the server starts isn't refused.
func (s *Server) remember(ns *namespace, more int) bool {
	if more > 0 && !s.loading && !s.remembers(int64(ns.memory)+int64(more), int64(s.memory)+int64(more)) {
		KeyMemory.Reached()
		return false
	}
	s.memory = uint64(max(int64(s.memory)+int64(more), 0))
	ns.memory = uint64(max(int64(ns.memory)+int64(more), 0))
	return true
}

// remembers says whether a namespace may have own bytes of the total that there
// are then.
func (s *Server) remembers(own, total int64) bool {
	most := int64(s.cfg.Memory)
	each, kept := most/(KeyMemory.Total/KeyMemory.Each), most/(KeyMemory.Total/KeyMemory.Kept)
	return most == 0 || total <= most && (own <= each || total <= most-kept)
}
