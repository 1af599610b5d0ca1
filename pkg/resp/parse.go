package resp

import "bytes"

// Error is the error of an unreadable request: the text of the reply. The start of
// the next request is unknown then, so the connection is closed.
type Error string

// Error is the reply's text.
func (e Error) Error() string { return string(e) }

// The reasons to refuse a request. The texts are 0-db's.
const (
	ErrNotArray  = Error("Malformed request, array expected")
	ErrNoCount   = Error("Missing arguments")
	ErrManyArgs  = Error("Too many arguments")
	ErrNotBulk   = Error("Malformed query string")
	ErrTooBig    = Error("Payload too big")
	ErrWholeSize = Error("Request too big")
)

// The further reasons of Limits.Strict and Limits.Large. The texts are croft's.
const (
	ErrNotEnded  = Error("Argument doesn't end where it should")
	ErrManyLarge = Error("Too many large arguments")
)

// maxLine is the length of the line before an array or an argument: more digits
// than any allowed number has.
const maxLine = 32

// Limits are the limits of a request.
type Limits struct {
	// Argument is the most bytes of an argument.
	Argument int
	// Arguments is the most arguments.
	Arguments int
	// Request is the most bytes of a whole request, lines included.
	Request int64
	// Large, when not 0, is the size in bytes that only one argument may exceed.
	Large int
	// Strict refuses input that 0-db forgives: numbers that aren't 1 to 9 digits, and arguments
	// that don't end in CRLF. A request may be empty then.
	Strict bool
}

// Parser reads the requests of one connection. The zero value is at the beginning of a
// request. It remembers its progress in an incomplete request, so that one in small
// pieces is read once.
type Parser struct {
	count int  // arguments announced, 0 before that line
	done  int  // arguments that are complete
	at    int  // where the next line begins
	need  int  // bytes from the beginning, before there is more to see
	large bool // a complete argument exceeded Limits.Large
}

// Need is the number of bytes of the request that Next needs for progress; at
// least 1.
func (p *Parser) Need() int { return max(p.need, 1) }

// Next reads the request at the beginning of buf. It returns the arguments,
// appended to args, which point into buf, and the length of the request: 0 when it
// isn't complete, and then buf must begin with the same bytes the next time. An
// error is an Error; the parser is of no use after it.
func (p *Parser) Next(buf []byte, args [][]byte, l *Limits) ([][]byte, int, error) {
	if len(buf) < p.need {
		return args, 0, nil
	}
	resumed := p.at > 0
	first := len(args)
	args, complete, err := p.scan(buf, args, l)
	if err != nil {
		return args[:first], 0, err
	}
	if !complete {
		return args[:first], 0, nil
	}
	consumed := p.at
	*p = Parser{}
	if !resumed {
		return args, consumed, nil
	}
	// Earlier arguments aren't in args: scan again, now that all is here.
	args, _, err = p.scan(buf[:consumed], args[:first], l)
	*p = Parser{}
	return args, consumed, err
}

// scan continues from the parser's position.
func (p *Parser) scan(buf []byte, args [][]byte, l *Limits) ([][]byte, bool, error) {
	if p.count == 0 {
		if err := p.array(buf, l); err != nil || p.count == 0 {
			return args, p.at > 0, err
		}
	}
	for p.done < p.count {
		n, body, err := p.line(buf, '$', l.Strict)
		if err != nil || body == 0 {
			return args, false, err
		}
		switch {
		case n < 0:
			return args, false, ErrNotBulk
		case n > l.Argument:
			return args, false, ErrTooBig
		case int64(body)+int64(n)+2 > l.Request:
			return args, false, ErrWholeSize
		case p.large && n > l.Large:
			return args, false, ErrManyLarge
		}
		end := body + n + 2
		if len(buf) < end {
			p.need = end
			return args, false, nil
		}
		// 0-db accepts any two bytes after an argument.
		if l.Strict && (buf[end-2] != '\r' || buf[end-1] != '\n') {
			return args, false, ErrNotEnded
		}
		p.large = p.large || l.Large > 0 && n > l.Large
		args = append(args, buf[body:body+n:body+n])
		p.done, p.at = p.done+1, end
	}
	return args, true, nil
}

// array reads the line with the number of arguments.
func (p *Parser) array(buf []byte, l *Limits) error {
	n, body, err := p.line(buf, '*', l.Strict)
	if err != nil || body == 0 {
		return err
	}
	if n == 0 && l.Strict {
		p.at = body
		return nil
	}
	if n <= 0 {
		return ErrNoCount
	}
	if n > l.Arguments {
		return ErrManyArgs
	}
	p.count, p.at = n, body
	return nil
}

// line reads a line with a number, which begins with kind. It returns where the
// next begins, 0 when this one isn't complete.
func (p *Parser) line(buf []byte, kind byte, strict bool) (n, next int, err error) {
	wrong := ErrNotBulk
	if kind == '*' {
		wrong = ErrNotArray
	}
	rest := buf[p.at:]
	if len(rest) == 0 {
		p.need = len(buf) + 1
		return 0, 0, nil
	}
	if rest[0] != kind {
		return 0, 0, wrong
	}
	// Nearly all numbers are short.
	if len(rest) >= 4 && rest[2] == '\r' && rest[3] == '\n' && rest[1]-'0' <= 9 {
		return int(rest[1] - '0'), p.at + 4, nil
	}
	end := bytes.IndexByte(rest[:min(len(rest), maxLine)], '\n')
	if end < 0 {
		if len(rest) >= maxLine {
			return 0, 0, wrong
		}
		p.need = len(buf) + 1
		return 0, 0, nil
	}
	if strict && !digits(rest[1:end]) {
		return 0, 0, wrong
	}
	return number(rest[1:end]), p.at + end + 1, nil
}

// digits reports whether b is 1 to 9 digits and a CR.
func digits(b []byte) bool {
	if len(b) < 2 || len(b) > 10 || b[len(b)-1] != '\r' {
		return false
	}
	for _, d := range b[:len(b)-1] {
		if d < '0' || d > '9' {
			return false
		}
	}
	return true
}

// number reads a number like C's atoi: blanks, a sign, digits, and then anything.
// A number too large for a limit stays so.
func number(b []byte) int {
	for len(b) > 0 && (b[0] == ' ' || b[0] >= '\t' && b[0] <= '\r') {
		b = b[1:]
	}
	sign := 1
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		if b[0] == '-' {
			sign = -1
		}
		b = b[1:]
	}
	n := 0
	for _, d := range b {
		if d < '0' || d > '9' {
			break
		}
		n = min(n*10+int(d-'0'), 1<<40)
	}
	return sign * n
}
