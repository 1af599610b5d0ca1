package zdb

import "time"

// PageRows makes pages of SCAN have at most n rows.
func (s *Server) PageRows(n int) { s.scanRows = n }

// PageTime makes pages of SCAN take as long as that.
func (s *Server) PageTime(d time.Duration) { s.scanTime = d }

// Busy is how many namespaces' stores are looked after.
func (s *Server) Busy() int { return len(s.busy) }

// TriesPause makes the first try of a password that has to wait do so for so long.
func (s *Server) TriesPause(d time.Duration) { s.tries.pause = d }
