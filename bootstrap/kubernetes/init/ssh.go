package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/sshkeys"
	"github.com/croft-edge/croft/internal/guest/service"
	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/clusterboot"
)

// sshAt has the machine's host key and the keys of accounts.
const sshAt = stateAt + "/ssh"

// accountsEvery is how often accounts are asked for their keys after the first time.
const accountsEvery = 6 * time.Hour

// startSSH makes the machine's host key at its first boot, shows it on the console, and starts the ssh server. Only keys log in.
func startSSH(runner *service.Runner, hostname string, data clusterboot.Data) (hostKey string, err error) {
	if err := os.MkdirAll(sshAt, 0o700); err != nil {
		return "", err
	}
	key := filepath.Join(sshAt, "host.ed25519")
	if err := makeHostKey(key); err != nil {
		return "", err
	}
	public, err := exec.Command("/usr/bin/dropbearkey", "-y", "-f", key).Output() //nolint:noctx // it ends by itself
	if err != nil {
		return "", fmt.Errorf("cannot read the host key: %w", err)
	}
	for line := range strings.Lines(string(public)) {
		if fields := strings.Fields(line); len(fields) >= 2 && strings.HasPrefix(fields[0], "ssh-") {
			hostKey = fmt.Sprintf("%s %s root@%s", fields[0], fields[1], hostname)
		}
	}
	store := sshkeys.Open(sshAt, sshkeys.GitHub, &http.Client{Timeout: 30 * time.Second})
	accounts := make([]string, len(data.SSHImport))
	for i, name := range data.SSHImport {
		accounts[i] = strings.TrimPrefix(name, "gh:")
	}
	var writing sync.Mutex
	write := func() error {
		writing.Lock()
		defer writing.Unlock()
		return writeKeys(store, data.SSHKeys, accounts)
	}
	if err := write(); err != nil {
		say("the ssh keys are those of the last boot: %v", err)
	}
	for _, account := range accounts {
		go keepAccount(store, account, write)
	}
	_, err = runner.Start(service.Spec{Name: "dropbear", Command: []string{"/usr/sbin/dropbear", "-F", "-E", "-s", "-r", key, "-p", "22"}})
	return hostKey, err
}

// makeHostKey makes the host key, if there is none. A power cut leaves none that is half written.
func makeHostKey(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	temporary := path + ".new"
	os.Remove(temporary)
	if err := command("/usr/bin/dropbearkey", "-t", "ed25519", "-f", temporary); err != nil {
		return err
	}
	content, err := os.ReadFile(temporary)
	if err != nil {
		return err
	}
	os.Remove(temporary)
	return atomicfile.WriteFile(path, content, 0o600)
}

// showHostKey shows the host key on the console, as cloud-init does. Whoever may read the machine's console needs not trust the
// network.
func showHostKey(key string) {
	fmt.Fprintf(os.Stdout, "-----BEGIN SSH HOST KEY KEYS-----\n%s\n-----END SSH HOST KEY KEYS-----\n", key)
}

// ours marks the lines of authorized_keys that init writes; others are the user's.
const ours = " croft"

// writeKeys writes /root/.ssh/authorized_keys: lines that the user has added stay.
func writeKeys(store *sshkeys.Store, given, accounts []string) error {
	keys, err := store.Keys(given, accounts)
	if err != nil {
		return err
	}
	if err := os.MkdirAll("/root/.ssh", 0o700); err != nil {
		return err
	}
	const path = "/root/.ssh/authorized_keys"
	var out strings.Builder
	have, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for line := range strings.Lines(string(have)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasSuffix(line, ours) {
			fmt.Fprintln(&out, line)
		}
	}
	for _, key := range keys {
		fmt.Fprintln(&out, key+ours)
	}
	return replaceFile(path, []byte(out.String()), 0o600)
}

// keepAccount fetches an account's keys when it can, and again some times a day.
func keepAccount(store *sshkeys.Store, account string, fetched func() error) {
	pause := backoff.Backoff{Base: 2 * time.Second, Max: 10 * time.Minute}
	for failures := 0; ; {
		err := store.Fetch(context.Background(), account)
		if err == nil {
			err = fetched()
		}
		wait := backoff.Around(accountsEvery)
		if err != nil {
			if failures++; failures == 1 {
				say("%v; it is tried again", err)
			}
			wait = pause.Delay(failures)
		} else {
			failures = 0
			say("the ssh keys of %s are here", account)
		}
		<-time.After(wait)
	}
}
