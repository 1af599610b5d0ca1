package server

// PageRows makes pages of SCAN have at most n rows.
func (s *Server) PageRows(n int) { s.scanRows = n }
