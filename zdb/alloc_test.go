package zdb_test

import (
	"encoding/binary"
	"testing"

	"github.com/croft-edge/croft/zdb"
)

// The commands that clients send most make no garbage.
func TestSetAndGetDontAllocate(t *testing.T) {
	for _, mode := range []string{zdb.ModeUser, zdb.ModeSequential} {
		b := open(t, zdb.Config{Mode: mode})
		c := b.client()
		key, value := []byte("0123456789abcdef"), make([]byte, 1024)
		set := [][]byte{[]byte("set"), key, value}
		if mode == zdb.ModeSequential {
			b.srv.Command(c.conn, [][]byte{[]byte("SET"), nil, value})
			key = make([]byte, 8)
			set[1] = key
		}
		n := uint32(0)
		run := func(args [][]byte) func() {
			return func() {
				n++
				binary.LittleEndian.PutUint32(value, n) // another value each time, of the same key
				c.conn.Out = c.conn.Out[:0]
				b.srv.Command(c.conn, args)
				if err := b.srv.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, args := range map[string][][]byte{
			"SET": set, "GET": {[]byte("GET"), key}, "MGET": {[]byte("MGET"), key, key}, "EXISTS": {[]byte("EXISTS"), key}, "LENGTH": {[]byte("LENGTH"), key},
			"PING": {[]byte("PING")}, "missing": {[]byte("GET"), []byte("no such key")}, "unknown": {[]byte("NONE")},
		} {
			// What grows from time to time, such as an index, isn't one a command.
			if allocs := testing.AllocsPerRun(2000, run(args)); allocs > 0 {
				t.Errorf("%s, mode %s: %v allocations each", name, mode, allocs)
			}
		}
	}
}
