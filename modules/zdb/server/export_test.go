package server

// PageRows makes pages of SCAN have at most n rows.
func (s *Server) PageRows(n int) { s.scanRows = n }

// Busy is how many namespaces' stores are looked after.
func (s *Server) Busy() int { return len(s.busy) }
