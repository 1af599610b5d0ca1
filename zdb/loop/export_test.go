package loop

// Held is what connections count for: parties, connections that are known and
// that aren't, those of admins, and bytes. It is called on the loop's thread.
func (l *Loop) Held() [6]int64 {
	p := l.conns.places
	return [6]int64{int64(len(p.sources)), int64(len(p.groups)), int64(p.known), int64(p.unknown), int64(p.admin.refs), p.buffers + p.unknownBytes + p.admin.bytes}
}
