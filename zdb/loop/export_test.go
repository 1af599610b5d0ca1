package loop

// Held is what connections count for: parties, connections that are known and
// that aren't, those of admins, and bytes. It is called on the loop's thread.
func (l *Loop) Held() [6]int64 {
	return [6]int64{int64(len(l.sources)), int64(len(l.groups)), int64(l.known), int64(l.unknown), int64(l.admin.refs), l.buffers + l.unknownBytes + l.admin.bytes}
}
