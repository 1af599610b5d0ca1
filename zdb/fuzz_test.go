package zdb_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/croft-edge/croft/zdb"
)

// FuzzCommands runs lines of text as commands: words are arguments, "<" and ">"
// change the connection, and "!" starts the server anew. Whatever they are, each
// answers one value, or waits, and the server can be started again.
func FuzzCommands(f *testing.F) {
	for _, seed := range []string{
		"SET a b\nGET a\nDEL a\nSCAN\nRSCAN\nHISTORY a\nKEYCUR a",
		"SET  v\nSET \x00\x00\x00\x00\x00\x00\x00\x00 w\nGET \x01\x00\x00\x00\x00\x00\x00\x00\n!\nSCAN\nINDEX DIRTY\nINDEX DIRTY RESET",
		"NSNEW a\nSELECT a\n>\nSELECT a x\nNSSET a password x\nNSSET a public 0\nFLUSH\nNSDEL a\n<\nPING",
		"NSNEW a\nNSSET a mode seq\nSELECT a\nSET  x\nNSSET a worm 1\nSET \x00\x00\x00\x00\x00\x00\x00\x00 y\n!\nNSINFO a",
		"AUTH SECURE CHALLENGE\nAUTH SECURE 0000000000000000000000000000000000000000\nSELECT default SECURE x",
		"WAIT SET 100\n>\nSET a b\nWAIT * 100\n<\nPING\nDBSIZE",
		"NSJUMP\nSET a b\nDATA RAW 1 28\nDATA RAW 0 0\nNSSET default freeze 1\nGET a\nNSSET default lock 1\nRELOAD default\nHOOKS\nINFO\nTIME\nMASTER\nMIRROR\nSTOP\nKSCAN a",
		"SCAN 0123456789abcdefg\nRSCAN 0123456789abcde\nHISTORY a 01234567\nHISTORY a 012345\nMGET a b c  d\nEXISTS a\nCHECK a\nLENGTH a\nKEYTIME a\nSETX a b 99999999999",
	} {
		for kind := range byte(8) {
			f.Add(kind, seed)
		}
	}
	dir := "/dev/shm" // it syncs a lot
	if _, err := os.Stat(dir); err != nil {
		dir = ""
	}
	f.Fuzz(func(t *testing.T, kind byte, text string) {
		data, err := os.MkdirTemp(dir, "zdbfuzz")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(data)
		cfg := zdb.Config{Data: data, DataSize: 4096, Debug: kind&4 != 0}
		if kind&1 != 0 {
			cfg.Mode = zdb.ModeSequential
		}
		if kind&2 != 0 {
			cfg.Compat = zdb.CompatV1
		}
		b := &bench{t: t, cfg: cfg}
		b.start()
		defer b.close()
		runLines(b, text)
		b.again()
		c := b.client()
		for _, command := range []string{"NSINFO default", "SCAN", "RSCAN", "INFO", "NSLIST"} {
			parseReply(t, command, c.do(strings.Fields(command)...))
		}
	})
}

func runLines(b *bench, text string) {
	clients := []*client{b.client(), b.client()}
	waits := map[*client]bool{}
	at := 0
	for n, line := range strings.Split(text, "\n") {
		switch {
		case n > 64:
			return
		case line == "<" || line == ">":
			at = 1 - at
			continue
		case line == "!":
			b.again()
			clients, waits = []*client{b.client(), b.client()}, map[*client]bool{}
			continue
		}
		c := clients[at]
		if waits[c] && c.conn.Out == nil || waits[c] && len(c.conn.Out) == 0 {
			continue // the loop wouldn't run it
		}
		delete(waits, c)
		c.got()
		reply := c.do(strings.Split(line, " ")...)
		if reply == "" && bytes.HasPrefix(bytes.ToUpper([]byte(line)), []byte("WAIT ")) {
			waits[c] = true
			continue
		}
		parseReply(b.t, line, reply)
	}
}

func parseReply(t testing.TB, command, reply string) {
	t.Helper()
	if rest := skip(reply); rest != "" {
		t.Fatalf("%q answers %q, of which %q is too much", command, clip([]byte(reply)), clip([]byte(rest)))
	}
}
