package zdb_test

import (
	"encoding/binary"
	"testing"

	"github.com/croft-edge/croft/zdb"
)

// BenchmarkCommand measures a command's cost without the network, in rounds of 16.
func BenchmarkCommand(b *testing.B) {
	for _, name := range []string{"SET", "GET", "EXISTS", "PING"} {
		b.Run(name, func(b *testing.B) {
			w := open(b, zdb.Config{})
			c := w.client()
			const keys = 10000
			key, value := make([]byte, 16), make([]byte, 1024)
			set := [][]byte{[]byte("SET"), key, value}
			for n := range uint64(keys) {
				binary.LittleEndian.PutUint64(key, n)
				w.srv.Command(c.conn, set)
				c.conn.Out = c.conn.Out[:0]
			}
			args := map[string][][]byte{"SET": set, "PING": {[]byte("PING")}}[name]
			if args == nil {
				args = [][]byte{[]byte(name), key}
			}
			b.ReportAllocs()
			for n := uint64(0); b.Loop(); n++ {
				binary.LittleEndian.PutUint64(key, n*7919%keys)
				binary.LittleEndian.PutUint64(value, n)
				w.srv.Command(c.conn, args)
				if n%16 == 15 {
					if err := w.srv.Flush(); err != nil {
						b.Fatal(err)
					}
					c.conn.Out = c.conn.Out[:0]
				}
			}
		})
	}
}
