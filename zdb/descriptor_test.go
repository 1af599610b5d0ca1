package zdb_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb"
)

// Names and passwords are bytes, whatever they are.
func TestNamesAndPasswordsOfAnyBytesAreKept(t *testing.T) {
	b := open(t, zdb.Config{})
	var every, high []byte
	for i := range 128 {
		if i != '/' {
			every = append(every, byte(i))
		}
		high = append(high, byte(128+i))
	}
	names := []string{string(every), string(high), "n s", "ns\n", "\x00", "lock", "0", "-1", ".new-1", "namespace", "é", "\xff\xfe", strings.Repeat("n", 128), "...", "DEFAULT", "\"quoted\"", "<&>"}
	c := b.client()
	for i, name := range names {
		password := string(high[i:]) + name
		password = password[:min(len(password), 63)]
		for _, args := range [][]string{{"NSNEW", name}, {"NSSET", name, "password", password}, {"NSSET", name, "public", "0"}, {"SELECT", name, password}} {
			if got := c.do(args...); got != ok {
				t.Fatalf("%q: %q", args, got)
			}
		}
		if got := c.do("SET", "key", name); got != bulk("key") {
			t.Fatal(got)
		}
	}
	b.again()
	c = b.client()
	list := "*18\r\n" + bulk("default")
	for i, name := range names {
		list += bulk(name)
		password := string(high[i:]) + name
		password = password[:min(len(password), 63)]
		if got := c.do("SELECT", name); got != "-Namespace protected and private\r\n" {
			t.Errorf("%q: %q", name, got)
		}
		if got := c.do("SELECT", name, password); got != ok {
			t.Errorf("%q: %q", name, got)
		}
		if got := c.do("GET", "key"); got != bulk(name) {
			t.Errorf("%q: %q", name, got)
		}
	}
	if got := c.do("NSLIST"); got != list {
		t.Errorf("got %q, want %q", got, list)
	}
}

func TestSettingsOutliveTheProcess(t *testing.T) {
	b := open(t, zdb.Config{Admin: "root"})
	c := b.client()
	c.all("AUTH root", "NSNEW a", "NSSET a maxsize 100", "NSSET a worm 1", "NSSET a public 0", "NSSET a password secret", "NSSET a lock 1", "NSSET a freeze 1")
	b.again()
	c = b.client()
	for name, want := range map[string]string{"data_limits_bytes": "100", "worm": "yes", "public": "no", "password": "yes", "locked": "no", "space_available": "100"} {
		if got := b.admin().field("NSINFO a", name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	c.all("SELECT a secret")
	c.want(bulk("k"), "SET k v")
	c.want("-Namespace is protected by worm mode\r\n", "SET k w")
}

func TestOnlyTheOwnerReadsDescriptors(t *testing.T) {
	b := open(t, zdb.Config{})
	b.client().all("NSNEW a", "NSSET a password secret")
	for _, number := range []string{"0", "1"} {
		folder := filepath.Join(b.cfg.Data, number)
		for path, want := range map[string]os.FileMode{folder: 0o700 | os.ModeDir, filepath.Join(folder, "namespace"): 0o600} {
			info, err := os.Stat(path)
			if err != nil || info.Mode() != want {
				t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
			}
		}
	}
}

// A password that was cleared or replaced is nowhere in the folder, nor in a log.
func TestAClearedPasswordIsNowhere(t *testing.T) {
	var log bytes.Buffer
	b := open(t, zdb.Config{Admin: "RootPassword77", Index: filepath.Join(t.TempDir(), "index"), Log: zerolog.New(&log), Data: t.TempDir()})
	c := b.client()
	c.all("AUTH RootPassword77", "NSNEW a", "NSSET a password FirstSecret11")
	if len(grep(t, b.cfg.Data, "FirstSecret11")) != 1 {
		t.Fatal("the password isn't found where it must be: the search is broken")
	}
	c.all("NSSET a password SecondSecret22", "SELECT a SecondSecret22")
	c.want(bulk("key"), "SET key value")
	if found := grep(t, b.cfg.Data, "FirstSecret11"); found != nil {
		t.Errorf("a replaced password is in %v", found)
	}
	c.all("NSSET a password *")
	for range 40 {
		c.do("AUTH", "WrongPassword33")
	}
	b.close()
	for _, secret := range []string{"SecondSecret22", "FirstSecret11", "RootPassword77", "WrongPassword33"} {
		for _, folder := range []string{b.cfg.Data, b.cfg.Index} {
			if found := grep(t, folder, secret); found != nil {
				t.Errorf("password %s is in %v", secret, found)
			}
		}
		if strings.Contains(log.String(), secret) {
			t.Errorf("password %s is in the log:\n%s", secret, log.String())
		}
	}
	if !strings.Contains(log.String(), "too many wrong passwords") {
		t.Errorf("nothing in the log of wrong passwords: %s", log.String())
	}
}

// grep returns the files below a folder that have a text in them.
func grep(t *testing.T, folder, text string) (found []string) {
	t.Helper()
	err := filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) || strings.Contains(path, text) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Whatever byte of a descriptor changes, its namespace is left out, the others go
// on, and the log says so. What was there is there again with the byte.
func TestADamagedDescriptorConcernsItsNamespaceOnly(t *testing.T) {
	var log bytes.Buffer
	b := open(t, zdb.Config{Log: zerolog.New(&log), Data: t.TempDir()})
	c := b.client()
	c.all("NSNEW bad", "NSNEW good", "SELECT bad")
	c.want(bulk("k"), "SET k v")
	c.all("SELECT good")
	c.want(bulk("k"), "SET k v")
	b.close()
	path := filepath.Join(b.cfg.Data, "1", "namespace")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string][]byte{"empty": {}, "cut": whole[:len(whole)/2], "longer": append(bytes.Clone(whole), whole...)}
	for i := 0; i < len(whole)-1; i += 7 {
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		damage["byte "+string(whole[:i])] = changed
	}
	for what, data := range damage {
		log.Reset()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		b.start()
		c := b.client()
		c.want("*2\r\n"+bulk("default")+bulk("good"), "NSLIST")
		c.want("-Namespace not found\r\n", "SELECT bad")
		c.all("SELECT good")
		c.want(bulk("v"), "GET k")
		if !strings.Contains(log.String(), "a namespace is damaged") || !strings.Contains(log.String(), `"number":1`) {
			t.Fatalf("%s: the log doesn't say it: %s", what, log.String())
		}
		// Its place isn't given to another.
		c.all("NSNEW other", "NSDEL other")
		b.close()
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	b.start()
	c = b.client()
	c.all("SELECT bad")
	c.want(bulk("v"), "GET k")
}

// Every client begins in default, so it is there also when it is damaged.
func TestADamagedDefaultConcernsItselfOnly(t *testing.T) {
	b := open(t, zdb.Config{})
	c := b.client()
	c.want(bulk("k"), "SET k v")
	c.all("NSNEW a")
	b.close()
	path := filepath.Join(b.cfg.Data, "0", "namespace")
	whole, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.start()
	c = b.client()
	const damaged = "-Namespace is damaged, see the log of the server\r\n"
	for _, command := range []string{
		"SET k v", "SETX k v", "GET k", "MGET k", "DEL k", "EXISTS k", "CHECK k", "LENGTH k", "KEYTIME k", "SCAN", "SCANX", "RSCAN",
		"KEYCUR k", "HISTORY k", "DBSIZE", "NSINFO default", "NSJUMP", "INDEX DIRTY", "DATA RAW 0 28", "RELOAD default",
	} {
		c.want(damaged, command)
	}
	c.want("+PONG\r\n", "PING")
	c.want("*2\r\n"+bulk("default")+bulk("a"), "NSLIST")
	c.all("NSSET default freeze 1", "NSSET default freeze 0", "SELECT a")
	c.want(bulk("k"), "SET k v")
	c.want("-Namespace is damaged, see the log of the server\r\n", "RELOAD default")
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	c.all("RELOAD default", "SELECT default")
	c.want(bulk("v"), "GET k")
}

// Two folders that say they are the same namespace: the first one is.
func TestTwoFoldersOfOneName(t *testing.T) {
	var log bytes.Buffer
	b := open(t, zdb.Config{Log: zerolog.New(&log), Data: t.TempDir()})
	b.client().all("NSNEW a", "NSNEW b")
	b.close()
	data, err := os.ReadFile(filepath.Join(b.cfg.Data, "1", "namespace"))
	if err == nil {
		err = os.WriteFile(filepath.Join(b.cfg.Data, "2", "namespace"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.start()
	b.client().want("*2\r\n"+bulk("default")+bulk("a"), "NSLIST")
	if !strings.Contains(log.String(), "has it too") {
		t.Error(log.String())
	}
}
