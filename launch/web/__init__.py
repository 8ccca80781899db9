"""Web servers of commands: routes, security headers, static files, arguments; needs the extra
`serve`."""
