package broker

import (
	"bytes"
	"testing"
)

func FuzzReadCommand(f *testing.F) {
	f.Add([]byte("*1\r\n$4\r\nPING\r\n"))
	f.Add([]byte("*3\r\n$5\r\nRPUSH\r\n$1\r\nk\r\n$1\r\nv\r\n"))
	f.Add([]byte("*2\r\n$-1\r\n"))
	f.Add([]byte("PING\r\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := newCommandReader(bytes.NewReader(sent))
		for range 100 {
			words, err := readCommand(r)
			if err != nil {
				return
			}
			if len(words) > maxCommandArguments {
				t.Errorf("%d words", len(words))
			}
		}
	})
}
