// Package ready owns the question whether the API server is ready.
package ready

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Limits are how patiently Wait asks: Every is the pause between two questions, Answer how long one answer may take,
// All the time until Wait gives up.
type Limits struct {
	Every, Answer, All time.Duration
}

// Wait asks url until the answer is 200. Its error has the last answer. It does not verify the server's certificate,
// and sends no credentials: who answers in the server's place learns nothing, and could at most make the next parts
// start early. A 401 ends the wait: the API server does not talk to strangers, so that it will never be ready for this.
func Wait(ctx context.Context, url string, l Limits) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.All, fmt.Errorf("not ready within %s", l.All))
	defer cancel()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: l.Answer}
	tick := time.NewTicker(l.Every)
	defer tick.Stop()
	for {
		last := ask(ctx, client, url)
		if last == nil || errors.Is(last, errStranger) {
			return last
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}

var errStranger = errors.New("the API server answers 401 without credentials: --anonymous-auth must allow /readyz")

// ask asks once: nil says that the server is ready.
func ask(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	switch {
	case response.StatusCode == http.StatusUnauthorized:
		return errStranger
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answers %s: %s", url, response.Status, strings.TrimSpace(string(text)))
	}
	return err
}
