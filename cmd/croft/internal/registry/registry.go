// Package registry asks registries whether they have the images that a project
// refers to, before anything is changed for it.
package registry

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/pkg/errors"
)

// Scheme begins the references that lead to a registry; other images can't be
// checked from here.
const Scheme = "docker://"

// limit is for one answer, with the token that it may need.
const limit = 5 * time.Second

// MissingError is a registry's answer that it hasn't the image or doesn't serve it.
type MissingError struct {
	Reference string
	Why       string
}

func (e *MissingError) Error() string {
	return "the registry has no " + strings.TrimPrefix(e.Reference, Scheme) + " for you: " + e.Why
}

// Check asks for the manifest that a reference leads to; auth is USER:PASSWORD, or
// empty. The error is a MissingError when the registry says no, and another one when
// it can't be asked. References other than docker:// aren't checked.
func Check(ctx context.Context, reference, auth string) error {
	text, ok := strings.CutPrefix(reference, Scheme)
	if !ok {
		return nil
	}
	ref, err := name.ParseReference(text)
	if err != nil {
		return &MissingError{Reference: reference, Why: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	options := []remote.Option{remote.WithContext(ctx), remote.WithRetryStatusCodes()}
	if user, password, ok := strings.Cut(auth, ":"); ok {
		options = append(options, remote.WithAuth(&authn.Basic{Username: user, Password: password}))
	}
	_, err = remote.Head(ref, options...)
	var answer *transport.Error
	if errors.As(err, &answer) {
		switch answer.StatusCode {
		case http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden:
			return &MissingError{Reference: reference, Why: http.StatusText(answer.StatusCode)}
		}
	}
	return errors.Wrapf(err, "cannot ask for %s", text)
}
