package zdb_test

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/croft-edge/croft/zdb"
)

const (
	denied   = "-Permission denied\r\n"
	readOnly = "-Namespace is in read-only mode\r\n"
)

// adminCommands are refused to who isn't admin, before anything else is looked at.
var adminCommands = []string{"NSNEW x", "NSNEW", "NSDEL x", "NSSET x maxsize 1", "NSSET", "RELOAD x", "NSJUMP", "HOOKS", "INDEX DIRTY", "DATA RAW 0 28", "MIRROR", "MASTER", "SET k v 1", "DEL k 1"}

// allowed counts the commands that an admin may and others may not.
func (c *client) isAdmin() bool {
	c.b.t.Helper()
	yes := 0
	for _, command := range adminCommands {
		if c.do(strings.Fields(command)...) != denied {
			yes++
		}
	}
	if yes != 0 && yes != len(adminCommands) {
		c.b.t.Errorf("%d of %d admin's commands are allowed", yes, len(adminCommands))
	}
	return yes > 0
}

// Who is admin, and who may write to default.
func TestRights(t *testing.T) {
	for _, c := range []struct {
		what          string
		cfg           zdb.Config
		admin, writes bool // over TCP
		auth          string
		// after AUTH root, and after SELECT default root besides
		authAdmin, authWrites, selectWrites bool
		socketWrites                        bool // over the admin's socket
	}{
		{what: "open", admin: true, writes: true, auth: "-Authentication disabled\r\n", authAdmin: true, authWrites: true, selectWrites: true, socketWrites: true},
		{what: "password", cfg: zdb.Config{Admin: "root"}, writes: true, auth: ok, authAdmin: true, authWrites: true, selectWrites: true, socketWrites: true},
		{what: "protected", cfg: zdb.Config{Admin: "root", Protect: true}, auth: ok, authAdmin: true, selectWrites: true, socketWrites: true},
		{what: "admin socket", cfg: zdb.Config{AdminSocket: true}, auth: "-Authentication disabled\r\n", socketWrites: true},
		{what: "admin socket and password", cfg: zdb.Config{AdminSocket: true, Admin: "root"}, auth: ok, authAdmin: true, selectWrites: true, socketWrites: true},
		{what: "all", cfg: zdb.Config{AdminSocket: true, Admin: "root", Protect: true}, auth: ok, authAdmin: true, selectWrites: true, socketWrites: true},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := open(t, c.cfg)
			tcp := b.client()
			canWrite := func(who *client) bool {
				switch got := who.do("SET", "k", "v"); got {
				case bulk("k"), null:
					return true
				case readOnly:
					return false
				default:
					t.Fatalf("SET answers %q", got)
					return false
				}
			}
			check := func(what string, got, want bool) {
				if got != want {
					t.Errorf("%s: %v, want %v", what, got, want)
				}
			}
			check("admin", tcp.isAdmin(), c.admin)
			check("writes", canWrite(tcp), c.writes)
			// What clients do when they connect.
			if got := tcp.do("INFO"); !strings.Contains(got, "0-db (zdb)") {
				t.Errorf("INFO answers %q", got)
			}
			tcp.all("SELECT default")
			check("writes after SELECT", canWrite(tcp), c.writes)
			tcp.want("$-1\r\n", "GET nokey")
			tcp.want(c.auth, "AUTH root")
			check("admin after AUTH", tcp.isAdmin(), c.authAdmin)
			check("writes after AUTH", canWrite(tcp), c.authWrites)
			tcp.all("SELECT default root")
			check("writes after AUTH and SELECT", canWrite(tcp), c.selectWrites)
			socket := b.admin()
			check("the socket's is admin", socket.isAdmin(), true)
			check("the socket's writes", canWrite(socket), c.socketWrites)
			socket.all("SELECT default")
			check("the socket's writes after SELECT", canWrite(socket), c.socketWrites)
			// Other namespaces are everybody's.
			socket.all("NSNEW free")
			other := b.client()
			other.all("SELECT free")
			check("writes to another namespace", canWrite(other), true)
		})
	}
}

// STOP is an admin's, where debug builds of 0-db let everybody end them.
func TestStopIsForAdmins(t *testing.T) {
	for _, compat := range []string{zdb.CompatV1, zdb.CompatV2} {
		stopped := 0
		b := open(t, zdb.Config{Compat: compat, Debug: true, Admin: "root", Stop: func() { stopped++ }})
		c := b.client()
		c.want(denied, "STOP")
		if stopped != 0 {
			t.Error("somebody stopped it")
		}
		c.all("AUTH root")
		c.want("+Stopping\r\n", "STOP")
		if stopped != 1 {
			t.Error("an admin can't stop it")
		}
	}
}

func TestPasswordOfANamespace(t *testing.T) {
	b := open(t, zdb.Config{})
	c := b.client()
	c.all("NSNEW a", "NSSET a password secret")
	reader, writer := b.client(), b.client()
	reader.all("SELECT a")
	writer.all("SELECT a secret")
	writer.want(bulk("k"), "SET k v")
	for _, command := range []string{"SET k v", "SETX k v", "DEL k", "SET k v 1", "DEL k 1"} {
		reader.want(readOnly, command)
	}
	reader.want(bulk("v"), "GET k")
	c.all("NSSET a public 0")
	// Who is inside stays as they were.
	reader.want(readOnly, "FLUSH")
	writer.all("FLUSH")
	for given, want := range map[string]string{
		"":                             "-Namespace protected and private\r\n",
		" wrong":                       "-Access denied\r\n",
		" secre":                       "-Access denied\r\n",
		" secrett":                     "-Access denied\r\n",
		" " + strings.Repeat("p", 255): "-Access denied\r\n",
		" " + strings.Repeat("p", 256): "-Password too long\r\n",
		" a b c":                       "-Too many arguments\r\n",
		" secret":                      ok,
	} {
		b.client().want(want, "SELECT a"+given)
	}
	c.all("NSSET a password *")
	b.client().all("SELECT a", "SELECT a whatever")
}

// A challenge is random, belongs to one connection, and AUTH uses it up.
func TestSecureAuthentication(t *testing.T) {
	b := open(t, zdb.Config{Admin: "root"})
	c, other := b.client(), b.client()
	c.want("-No CHALLENGE requested, secure authentication not available\r\n", "AUTH SECURE x")
	seen := map[string]bool{}
	for range 100 {
		challenge := c.challenge()
		if seen[challenge] {
			t.Fatalf("challenge %s was given twice", challenge)
		}
		seen[challenge] = true
	}
	challenge := c.challenge()
	other.want("-No CHALLENGE requested, secure authentication not available\r\n", "AUTH SECURE "+answer(challenge, "root"))
	c.want("-Invalid hash length\r\n", "AUTH SECURE abc")
	c.want("-Access denied\r\n", "AUTH SECURE "+answer(challenge, "wrong"))
	c.want("-No CHALLENGE requested, secure authentication not available\r\n", "AUTH SECURE "+answer(challenge, "root"))
	challenge = c.challenge()
	c.want("-Access denied\r\n", "AUTH SECURE "+strings.ToUpper(answer(challenge, "root")))
	c.all("AUTH SECURE "+answer(c.challenge(), "root"), "NSNEW a", "NSSET a password pw")
	challenge = other.challenge()
	other.want("-Access denied\r\n", "SELECT a SECURE "+answer(challenge, "wrong"))
	other.all("SELECT a SECURE "+answer(challenge, "pw"), "SELECT a SECURE "+answer(challenge, "pw"))
	other.want(bulk("k"), "SET k v")
}

func (c *client) challenge() string {
	c.b.t.Helper()
	got := c.do("AUTH", "SECURE", "CHALLENGE")
	text := strings.TrimSuffix(strings.TrimPrefix(got, "+"), "\r\n")
	if _, err := hex.DecodeString(text); err != nil || len(text) != 16 {
		c.b.t.Fatalf("challenge %q", got)
	}
	return text
}

func answer(challenge, password string) string {
	sum := sha1.Sum([]byte(challenge + ":" + password))
	return hex.EncodeToString(sum[:])
}

func TestLockAndFreeze(t *testing.T) {
	b := open(t, zdb.Config{})
	c := b.client()
	c.all("NSNEW a", "SELECT a")
	c.want(bulk("k"), "SET k v")
	reads := []string{"GET k", "MGET k", "EXISTS k", "CHECK k", "LENGTH k", "KEYTIME k", "SCAN", "SCANX", "RSCAN", "KEYCUR k", "HISTORY k"}
	writes := []string{"SET k v", "SETX k v", "SET k v 1", "DEL k", "DEL k 1"}
	answers := func(commands []string, want string) {
		t.Helper()
		for _, command := range commands {
			if got := c.do(strings.Fields(command)...); (got == want) != (want != "") || want == "" && got[0] == '-' {
				t.Errorf("%s: %q, want %q", command, got, want)
			}
		}
	}
	const locked, frozen = "-Namespace is temporarily locked (read-only)\r\n", "-Namespace is temporarily frozen (read-write disabled)\r\n"
	c.all("NSSET a lock 1")
	answers(reads, "")
	answers(writes, locked)
	c.all("NSSET a freeze 1")
	answers(reads, frozen)
	answers(writes, frozen)
	c.want(":1\r\n", "DBSIZE")
	c.want("+PONG\r\n", "PING")
	c.all("NSSET a password x", "NSSET a public 0")
	c.want(frozen, "FLUSH")
	c.all("NSSET a lock 0", "NSSET a freeze 0")
	answers(reads, "")
}

// After too many wrong passwords a connection ends; there is nothing to see of
// that without a socket but the log.
func TestWrongPasswordsAreCounted(t *testing.T) {
	w := serve(t, zdb.Config{Admin: "root"})
	w.loop.Post(func() { w.srv.TriesPause(1) })
	c := w.dial(t)
	for range 31 {
		if _, err := c.Do("AUTH", "wrong"); err == nil || err.Error() != "Access denied" {
			t.Fatal(err)
		}
	}
	if _, err := c.Do("PING"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do("SELECT", "default"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do("AUTH", "wrong"); err == nil || err.Error() != "Access denied" {
		t.Fatal(err)
	}
	if _, err := c.Do("PING"); err == nil {
		t.Error("the connection goes on after 32 wrong passwords")
	}
	st, err := w.srv.Stats(t.Context())
	if err != nil || st.WrongPasswords != 32 {
		t.Errorf("%d wrong passwords are counted, %v", st.WrongPasswords, err)
	}
}
