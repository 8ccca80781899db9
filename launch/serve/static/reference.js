// The examples have the address at which the browser reaches the server, also behind a proxy.

for (const origin of document.querySelectorAll(".origin")) origin.textContent = location.origin;
