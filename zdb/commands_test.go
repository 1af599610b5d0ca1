package zdb_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/croft-edge/croft/zdb"
)

const unknown = "-Command not supported\r\n"

// Only whole names are commands, in any case.
func TestCommandNamesAreMatchedWhole(t *testing.T) {
	names := []string{"WAIT", "MIRROR", "MASTER", "PING", "TIME", "AUTH", "HOOKS", "INDEX", "DATA", "SET", "SETX", "GET", "MGET", "DEL", "EXISTS", "CHECK", "LENGTH", "KEYTIME",
		"SCAN", "SCANX", "RSCAN", "KSCAN", "HISTORY", "KEYCUR", "INFO", "STOP", "DBSIZE", "NSNEW", "NSDEL", "NSLIST", "NSSET", "NSINFO", "NSJUMP", "SELECT", "RELOAD", "FLUSH"}
	whole := map[string]bool{}
	for _, name := range names {
		whole[name] = true
	}
	c := open(t, zdb.Config{}).client()
	for _, name := range names {
		for _, form := range []string{name, strings.ToLower(name), strings.ToLower(name[:1]) + name[1:]} {
			if got := c.do(form); got == unknown {
				t.Errorf("%s isn't known", form)
			}
		}
		for i := 1; i < len(name); i++ {
			if got := c.do(name[:i]); (got == unknown) == whole[name[:i]] {
				t.Errorf("%s: %q", name[:i], got)
			}
		}
		for _, form := range []string{name + "Y", name + "\x00", "\x00" + name, name + " ", " " + name} {
			if got := c.do(form); got != unknown {
				t.Errorf("%q: %q", form, got)
			}
		}
	}
	for _, name := range []string{"COMMAND", "CONFIG", "HELLO", "CLIENT", "QUIT", "ECHO", "KEYS", "FLUSHALL", "LOCK", "INFOINFOINFO", strings.Repeat("x", 1<<20), "GET\r\n", "\xff\xff\xff"} {
		if got := c.do(name, "DOCS"); got != unknown {
			t.Errorf("%s: %q", clip([]byte(name)), got)
		}
	}
}

func TestVersion1LacksLaterCommands(t *testing.T) {
	c := open(t, zdb.Config{Compat: zdb.CompatV1}).client()
	for _, name := range []string{"MGET", "LENGTH", "KEYTIME", "NSJUMP", "HOOKS", "INDEX", "DATA"} {
		c.want(unknown, name+" a")
		c.want("-Unknown command to watch\r\n", "WAIT "+name)
	}
	c.want("-Unexpected arguments\r\n", "DEL a 1")
	c.want("-Unexpected arguments\r\n", "AUTH SECURE CHALLENGE")
}

// Every command is sent 0 to 5 arguments, short, empty, long and strange ones: it
// answers one value each time.
func TestOneReplyPerCommand(t *testing.T) {
	arguments := []string{"", "a", "default", "SECURE", "CHALLENGE", "DIRTY", "RAW", "-1", "99999999999999999999", "\x00\xff", strings.Repeat("k", 256), strings.Repeat("n", 129), "maxsize", "mode", "lock", "*"}
	names := strings.Fields("* MIRROR MASTER PING TIME AUTH HOOKS INDEX DATA SET SETX GET MGET DEL EXISTS CHECK LENGTH KEYTIME SCAN SCANX RSCAN KSCAN HISTORY KEYCUR INFO STOP DBSIZE NSNEW NSDEL NSLIST NSSET NSINFO NSJUMP SELECT RELOAD FLUSH NONE")
	for _, cfg := range []zdb.Config{{}, {Compat: zdb.CompatV1}, {Mode: zdb.ModeSequential, Admin: "pw", Debug: true}} {
		b := open(t, cfg)
		for _, name := range names {
			for n := range 5 {
				for i, a := range arguments {
					args := []string{name}
					for j := range n {
						args = append(args, arguments[(i+j*5)%len(arguments)])
					}
					c := b.client()
					got := c.do(args...)
					if rest := skip(got); rest != "" || got == "" {
						t.Errorf("%q with %q answers %q, of which %q is too much", name, a, clip([]byte(got)), clip([]byte(rest)))
					}
					c.leave()
				}
			}
		}
	}
}

// skip is the rest after the first value.
func skip(s string) string {
	line, rest, _ := strings.Cut(s, "\r\n")
	n := 0
	switch {
	case line == "":
		return "nothing"
	case line[0] == '$':
		fmt.Sscanf(line[1:], "%d", &n)
		if n >= 0 {
			rest = rest[n+2:]
		}
	case line[0] == '*':
		fmt.Sscanf(line[1:], "%d", &n)
		for range n {
			rest = skip(rest)
		}
	}
	return rest
}

// Deviations from the recorded servers: docs/zdb-server.md has the list.
func TestDeviations(t *testing.T) {
	t.Run("a cursor of nothing", func(t *testing.T) {
		for compat, size := range map[string]int{zdb.CompatV1: 15, zdb.CompatV2: 17} {
			c := open(t, zdb.Config{Compat: compat}).client()
			for range 2 {
				if got := c.do("SCAN", strings.Repeat("\x00", size)); got != "-Invalid key format\r\n" {
					t.Errorf("%s: %q", compat, got)
				}
				if got := c.do("RSCAN", strings.Repeat("\xff", size)); got != "-Invalid key format\r\n" {
					t.Errorf("%s: %q", compat, got)
				}
				c.do("SET", "k", "v")
			}
		}
	})
	t.Run("FLUSH empties", func(t *testing.T) {
		for _, compat := range []string{zdb.CompatV1, zdb.CompatV2} {
			b := open(t, zdb.Config{Compat: compat})
			c := b.client()
			c.all("NSNEW a", "SELECT a")
			c.want(bulk("k"), "SET k v")
			c.all("NSSET a public 0", "NSSET a password pw", "FLUSH")
			for range 2 {
				c.want(":0\r\n", "DBSIZE")
				c.want(null, "GET k")
				c.want("-No more data\r\n", "SCAN")
				b.again()
				c = b.client()
				c.all("SELECT a pw")
			}
		}
	})
	t.Run("a negative limit", func(t *testing.T) {
		c := open(t, zdb.Config{}).client()
		c.all("NSNEW a", "NSSET a maxsize 10")
		c.want("-Invalid value\r\n", "NSSET a maxsize -1")
		if got := c.field("NSINFO a", "data_limits_bytes"); got != "10" {
			t.Errorf("the limit is %s", got)
		}
		c.all("NSSET a maxsize 99999999999999999999")
		if got := c.field("NSINFO a", "data_limits_bytes"); got != "9223372036854775807" {
			t.Errorf("the limit is %s", got)
		}
		c.all("SELECT a")
		c.want(bulk("k"), "SET k v")
		c.want(bulk("k"), "SET k w")
	})
	t.Run("clients in a removed namespace", func(t *testing.T) {
		for _, compat := range []string{zdb.CompatV1, zdb.CompatV2} {
			b := open(t, zdb.Config{Compat: compat})
			c, inside := b.client(), b.client()
			c.all("NSNEW a")
			inside.all("SELECT a")
			c.all("NSDEL a", "NSNEW a")
			inside.want("-Your active namespace is not available anymore (probably removed).\r\n", "PING")
		}
	})
	t.Run("DEL lowers the counters", func(t *testing.T) {
		c := open(t, zdb.Config{Compat: zdb.CompatV1, Mode: zdb.ModeSequential}).client()
		c.do("SET", "", "value")
		if got := c.do("DEL", "\x00\x00\x00\x00"); got != ok {
			t.Fatal(got)
		}
		c.want(":0\r\n", "DBSIZE")
		if got := c.field("NSINFO default", "data_size_bytes"); got != "0" {
			t.Error(got)
		}
	})
	t.Run("MIRROR and MASTER", func(t *testing.T) {
		c := open(t, zdb.Config{}).client()
		c.want("-MIRROR is not supported by this server\r\n", "MIRROR")
		c.all("NSNEW a", "NSSET a password secret")
		c.want("+Hello, master\r\n", "MASTER")
		if got := c.do("NSINFO", "a"); strings.Contains(got, "secret") {
			t.Errorf("a master is told the password: %s", got)
		}
	})
	t.Run("RSCAN of version 1 comes to every key", func(t *testing.T) {
		c := open(t, zdb.Config{Compat: zdb.CompatV1, DataSize: 4096}).client()
		for i := range 12 {
			c.do("SET", fmt.Sprint("key", i), strings.Repeat("x", 1500))
		}
		seen := ""
		for cursor := []string{"RSCAN"}; ; {
			reply := c.do(cursor...)
			if reply == "-No more data\r\n" {
				break
			}
			body := strings.Split(reply, "\r\n")
			cursor = []string{"RSCAN", reply[len("*2\r\n$15\r\n"):][:15]}
			for _, line := range body {
				if strings.HasPrefix(line, "key") {
					seen += line[3:] + " "
				}
			}
		}
		if seen != "11 10 9 8 7 6 5 4 3 2 1 0 " {
			t.Errorf("saw %s", seen)
		}
	})
	t.Run("KEYCUR of version 1 can be gone on from", func(t *testing.T) {
		c := open(t, zdb.Config{Compat: zdb.CompatV1, DataSize: 4096}).client()
		for i := range 4 {
			c.do("SET", fmt.Sprint("key", i), strings.Repeat("x", 3000))
		}
		cursor := c.do("KEYCUR", "key2")[len("$15\r\n"):][:15]
		if got := c.do("SCAN", cursor); !strings.HasSuffix(got, "*1\r\n*3\r\n$4\r\nkey3\r\n:3000\r\n"+got[strings.LastIndex(got, ":"):]) {
			t.Errorf("got %q", got)
		}
	})
}

// A namespace keeps its mode, whatever mode the server is started with.
func TestTheModeOfANamespaceStays(t *testing.T) {
	b := open(t, zdb.Config{Data: t.TempDir(), Mode: zdb.ModeUser})
	c := b.client()
	c.all("NSNEW users", "SELECT users")
	c.want(bulk("k"), "SET k v")
	b.cfg.Mode = zdb.ModeSequential
	b.again()
	c = b.client()
	c.all("NSNEW numbers")
	for name, want := range map[string]string{"default": "userkey", "users": "userkey", "numbers": "sequential"} {
		if got := c.field("NSINFO "+name, "mode"); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	c.all("SELECT users")
	c.want(bulk("v"), "GET k")
	c.want(bulk("j"), "SET j w")
	b.cfg.Mode = ""
	b.again()
	c = b.client()
	c.want("-Cannot change mode of used namespace\r\n", "NSSET users mode seq")
	c.all("NSSET numbers mode user", "SELECT numbers")
	c.want(bulk("k"), "SET k v")
	b.again()
	c = b.client()
	c.all("SELECT numbers")
	c.want(bulk("v"), "GET k")
}

// A page ends when its time is over, and the cursor goes on.
func TestAPageOfScanIsBoundedInTime(t *testing.T) {
	b := open(t, zdb.Config{})
	c := b.client()
	const keys = 100
	for n := range keys {
		c.send("SET", fmt.Sprintf("%04d", n), "v")
	}
	b.srv.PageTime(0)
	seen, pages := 0, 0
	for args := []string{"SCAN"}; ; pages++ {
		reply := c.do(args...)
		if pages == 0 { // the first has the replies of SET before it
			reply = reply[strings.Index(reply, "*2\r\n"):]
		}
		if reply == "-No more data\r\n" {
			break
		}
		page := parse(t, reply).([]any)
		rows := page[1].([]any)
		seen += len(rows)
		args = []string{"SCAN", page[0].(string)}
		if len(rows) > 16 {
			t.Errorf("a page without time has %d rows", len(rows))
		}
	}
	if seen != keys || pages < keys/16 {
		t.Errorf("saw %d keys of %d on %d pages", seen, keys, pages)
	}
}
