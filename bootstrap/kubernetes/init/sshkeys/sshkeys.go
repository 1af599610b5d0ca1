// Package sshkeys has the public keys that may log in to the machine: those of its boot data, and those that accounts have
// published.
//
// It owns the files of its folder: the last keys of each account, so that a machine that is cut off keeps them.
package sshkeys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/croft-edge/croft/pkg/atomicfile"
)

const (
	// mostBody is the longest list of an account, in bytes, and mostKeys the number of keys taken of it.
	mostBody = 64 << 10
	mostKeys = 64
	// GitHub is where accounts of gh: publish their keys.
	GitHub = "https://github.com"
)

// Store keeps keys.
type Store struct {
	dir    string
	client *http.Client
	base   string
}

// Open prepares a store in a folder, which must exist. base is the URL before /NAME.keys.
func Open(dir, base string, client *http.Client) *Store {
	return &Store{dir: dir, base: base, client: client}
}

// Fetch fetches an account's keys, which become the account's. An account without keys loses those that it had.
func (s *Store) Fetch(ctx context.Context, account string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/"+account+".keys", nil)
	if err != nil {
		return err
	}
	answer, err := s.client.Do(q)
	if err != nil {
		return fmt.Errorf("cannot fetch the keys of %s: %w", account, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("cannot fetch the keys of %s: the answer is %s", account, answer.Status)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostBody+1))
	if err != nil {
		return fmt.Errorf("cannot fetch the keys of %s: %w", account, err)
	}
	if len(body) > mostBody {
		return fmt.Errorf("cannot use the keys of %s: the list has more than %d bytes", account, mostBody)
	}
	keys := Parse(strings.Split(string(body), "\n"))
	return atomicfile.WriteFile(s.path(account), []byte(strings.Join(keys, "\n")), 0o600)
}

func (s *Store) path(account string) string { return filepath.Join(s.dir, account+".keys") }

// Keys are the given keys, and the last ones of accounts.
func (s *Store) Keys(given, accounts []string) ([]string, error) {
	out := Parse(given)
	for _, account := range accounts {
		content, err := os.ReadFile(s.path(account))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, Parse(strings.Split(string(content), "\n"))...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Parse are the lines that are one public key each, without options and comments, at most 64.
func Parse(lines []string) []string {
	out := []string{}
	for _, line := range lines {
		key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil || len(options) > 0 || len(bytes.TrimSpace(rest)) > 0 || len(out) == mostKeys {
			continue
		}
		out = append(out, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))))
	}
	return out
}
