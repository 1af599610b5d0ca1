package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// account is a key, and croft as its owner runs it.
type account struct {
	stage    *stage
	explorer *explorer
	// file is the name of the key's file, id its public part.
	file, id string
}

// croft runs the CLI as the account's owner.
func (a *account) croft(ctx context.Context, args ...string) ([]byte, error) {
	global := []string{"--explorer", "http://" + a.explorer.address, "--id", a.stage.path(a.file)}
	return a.stage.output(ctx, "croft", append(global, args...)...)
}

// decoded runs the CLI with -o json and decodes its output.
func (a *account) decoded(ctx context.Context, into any, args ...string) error {
	out, err := a.croft(ctx, append([]string{"-o", "json"}, args...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("croft %s printed no JSON: %w: %.300s", strings.Join(args, " "), err, out)
	}
	return nil
}

// shown is one line of croft status, as JSON.
type shown struct {
	Name     string `json:"name"`
	ID       string `json:"id"`
	State    string `json:"state"`
	Verified bool   `json:"verified"`
	Detail   string `json:"detail"`
}

func (a *account) status(ctx context.Context, file string) ([]shown, error) {
	var rows []shown
	err := a.decoded(ctx, &rows, "status", "-f", file)
	return rows, err
}

// sign makes the signed document of a volume on a node.
func (a *account) sign(ctx context.Context, nodeID, data, duration string) (json.RawMessage, error) {
	return a.croft(ctx, "reservation", "sign", "--node", nodeID, "--type", "volume", "--data", data, "--duration", duration)
}

// pushDocument sends a signed document as it is.
func (a *account) pushDocument(ctx context.Context, document []byte) (string, error) {
	file := a.stage.path("document.json")
	if err := os.WriteFile(file, document, 0o600); err != nil {
		return "", err
	}
	var pushed struct {
		ID string `json:"id"`
	}
	err := a.decoded(ctx, &pushed, "reservation", "push", file)
	return pushed.ID, err
}

func (a *account) push(ctx context.Context, nodeID, data, duration string) (string, error) {
	document, err := a.sign(ctx, nodeID, data, duration)
	if err != nil {
		return "", err
	}
	return a.pushDocument(ctx, document)
}

// wantState waits until the verified result of a reservation has that state.
func (a *account) wantState(ctx context.Context, id, want string) error {
	return until(ctx, 30*time.Second, fmt.Sprintf("%s is %s", id, want), func() (bool, error) {
		var rows []shown
		if err := a.decoded(ctx, &rows, "status", id); err != nil {
			return false, err
		}
		if len(rows) != 1 || rows[0].State != want || !rows[0].Verified {
			return false, fmt.Errorf("it is %+v", rows)
		}
		return true, nil
	})
}

// counters are the node's, as another process reads them over the bus.
type counters struct {
	Volume int64 `json:"volume"`
}

func (a *account) counters(ctx context.Context) (counters, error) {
	out, err := a.croft(ctx, "-o", "json", "counters", "--bus", a.stage.bus())
	if err != nil {
		return counters{}, err
	}
	var c counters
	return c, json.Unmarshal(out, &c)
}

func (a *account) wantVolumes(ctx context.Context, want int64) error {
	return until(ctx, 15*time.Second, fmt.Sprintf("the counters say %d volumes", want), func() (bool, error) {
		c, err := a.counters(ctx)
		if err != nil {
			return false, err
		}
		if c.Volume != want {
			return false, fmt.Errorf("they say %d", c.Volume)
		}
		return true, nil
	})
}
