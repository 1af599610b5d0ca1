package redis

import (
	"context"
	"net"
	"testing"
)

// The abort at the end of a context must never come while somebody else already uses
// the link: it would cut off a request that redis has given out.
func TestALinkIsGoneWhenItsContextHasEnded(t *testing.T) {
	for range 200 {
		ours, theirs := net.Pipe()
		l := &link{net: &boundedConn{Conn: ours}}
		ctx, cancel := context.WithCancel(t.Context())
		if err := l.do(ctx, func() error { cancel(); return nil }); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = theirs.Read(make([]byte, 1)) }()
		if _, err := l.net.Write([]byte("x")); err == nil || !l.aborted {
			t.Fatalf("the link is used after its context's end: %v, aborted %v", err, l.aborted)
		}
		_ = theirs.Close()
	}
}
