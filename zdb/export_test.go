package zdb

import "time"

// PageRows limits pages of SCAN to n rows.
func (s *Server) PageRows(n int) { s.pages.most = n }

// PageTime limits the time for a page of SCAN.
func (s *Server) PageTime(d time.Duration) { s.pages.time = d }

// Busy is how many namespaces' stores have work to do.
func (s *Server) Busy() int { return len(s.upkeep.busy) }

// TriesPause sets the first delay of a check of a password.
func (s *Server) TriesPause(d time.Duration) { s.attempts.sources.Pause = d }
