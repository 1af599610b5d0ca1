// Package debugsocket reads dumps from a node's debug socket.
package debugsocket

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/privatesocket"
)

// maxDump bounds a dump in bytes.
const maxDump = 128 << 20

// Read reads the whole dump, or the part of that name; the answer is YAML.
func Read(ctx context.Context, socket, name string) ([]byte, error) {
	path := "/dump"
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return privatesocket.Dial(ctx, socket)
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://croftd"+path, nil)
	if err != nil {
		return nil, errors.Wrap(err, "cannot read a dump")
	}
	resp, err := client.Do(req)
	if err != nil {
		var outer *url.Error
		if errors.As(err, &outer) {
			err = outer.Err
		}
		if errors.Is(err, privatesocket.ErrNotRunning) {
			return nil, err
		}
		return nil, errors.Wrap(err, "cannot read a dump")
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDump+1))
	switch {
	case err != nil:
		return nil, errors.Wrap(err, "cannot read a dump")
	case len(text) > maxDump:
		return nil, errors.Errorf("cannot read a dump: it is larger than %d bytes; name a part of it", maxDump)
	case resp.StatusCode != http.StatusOK:
		return nil, errors.Errorf("cannot read a dump: %s: %s", resp.Status, clip.Line(strings.TrimSpace(string(text)), 500))
	}
	return text, nil
}
