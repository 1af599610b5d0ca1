package slots

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/pkg/errors"
)

const (
	// headerTime is how long a server may take to answer, stallTime how long it may send nothing.
	headerTime = 30 * time.Second
	stallTime  = time.Minute
)

// Server is a folder of a web server with an image's files.
type Server struct {
	// URL has no slash at its end.
	URL string
}

// Open implements Source.
func (s Server) Open(ctx context.Context, name string, from int64) (io.ReadCloser, bool, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	answer, err := s.ask(ctx, name, from)
	if err != nil {
		cancel(nil)
		return nil, false, errors.Wrapf(err, "cannot fetch %s", name)
	}
	ok := answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusPartialContent && from > 0
	if !ok {
		answer.Body.Close()
		cancel(nil)
		return nil, false, errors.Errorf("cannot fetch %s/%s: the server answers %s", s.URL, name, answer.Status)
	}
	stalled := errors.Errorf("the server has sent nothing for %s", stallTime)
	timer := time.AfterFunc(stallTime, func() { cancel(stalled) })
	return &watched{answer.Body, timer, cancel}, answer.StatusCode == http.StatusPartialContent || from == 0, nil
}

func (s Server) ask(ctx context.Context, name string, from int64) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/"+name, nil)
	if err != nil {
		return nil, err
	}
	if from > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	client := http.Client{Transport: &http.Transport{
		Proxy: nil, ResponseHeaderTimeout: headerTime, TLSHandshakeTimeout: headerTime, DisableKeepAlives: true,
	}}
	return client.Do(request)
}

// watched ends a body whose server sends nothing for too long.
type watched struct {
	io.ReadCloser
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.timer.Reset(stallTime)
	}
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	w.cancel(nil)
	return w.ReadCloser.Close()
}
